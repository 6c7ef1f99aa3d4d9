// Reads T-SQL texts from standard input, a JSON array, and writes what the
// grammar has against each: an array of arrays, empty where it has nothing.
'use strict';
const { antlr4tsSQL, SQLDialect } = require('antlr4ts-sql');

function parse(sql) {
  const errors = [];
  const listener = {
    syntaxError: (recognizer, symbol, line, column, message) =>
      errors.push(`${line}:${column} ${message.slice(0, 120)}`),
  };
  const dialect = new antlr4tsSQL(SQLDialect.TSQL);
  const tokens = dialect.getTokens(sql, [listener]);
  dialect.getParseTree(dialect.getParser(tokens, [listener]));
  if (tokens.LA(1) !== -1) errors.push('the text goes on after its end');
  return errors;
}

const texts = JSON.parse(require('fs').readFileSync(0, 'utf8'));
process.stdout.write(JSON.stringify(texts.map(parse)));
