package sqlstore_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var (
	hints    = regexp.MustCompile(` WITH \([A-Z, ]+\)`)
	now      = `DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01T00:00:00' AS DATETIME2), SYSUTCDATETIME())`
	listed   = regexp.MustCompile(`CHARINDEX\(',' \+ CAST\(o\.version AS VARCHAR\(20\)\) \+ ',', ',' \+ (\S+) \+ ','\)`)
	openJSON = regexp.MustCompile(`OPENJSON\((@p\d)\) WITH \(((?:[^()]|\(\d+\))*)\) s`)
	jsonPath = regexp.MustCompile(`(\w+) \w+(?:\(\d+\))? '\$(\.\w+)?'`)
	top      = regexp.MustCompile(`SELECT TOP \((@p\d+)\) (.*?ORDER BY [^)]*)`)
)

// translated puts SQLite's words in the place of SQL Server's.
func translated(query string, at int64, settings string) string {
	query = strings.NewReplacer(
		now, strconv.FormatInt(at, 10), "COUNT_BIG(", "count(", "CONVERT(VARBINARY(1700), s.id, 2)", "unhex(s.id)", `"app".`, "", `[app].`, "",
		"sys.databases d", "(SELECT "+settings+") d", "d.name = DB_NAME()", "true",
		"sys.schemas WHERE name = @p1", "(SELECT 1) WHERE @p1 IS NULL", "sys.tables WHERE object_id = OBJECT_ID(@p1)", "sqlite_master WHERE name = rtrim(substr(@p1, instr(@p1, '[blobtx') + 1), ']')",
	).Replace(query)
	query = hints.ReplaceAllString(query, "")
	query = strings.ReplaceAll(query, " COLLATE Latin1_General_100_BIN2", "")
	query = regexp.MustCompile(`\b0x\b`).ReplaceAllString(query, "x''")
	query = listed.ReplaceAllString(query, `instr(',' || $1 || ',', ',' || o.version || ',')`)
	query = top.ReplaceAllString(query, "SELECT $2 LIMIT $1")
	query = openJSON.ReplaceAllStringFunc(query, func(call string) string {
		m := openJSON.FindStringSubmatch(call)
		return "(SELECT " + strings.ReplaceAll(jsonPath.ReplaceAllString(m[2], `json_extract(value, '$$$2') AS $1`), "json_extract(value, '$')", "value") +
			" FROM json_each(" + m[1] + ")) s"
	})
	return regexp.MustCompile(`@p(\d+)`).ReplaceAllString(query, "?$1")
}

// translatedDDL returns "" for a schema, which SQLite has not. Names of indexes
// do not belong to their table there.
func translatedDDL(query string) string {
	if strings.HasPrefix(query, "CREATE SCHEMA") {
		return ""
	}
	query = strings.NewReplacer(" NONCLUSTERED", "", " CLUSTERED", "", "(MAX)", "").Replace(query)
	return regexp.MustCompile(`INDEX (\w+) ON (\w+)`).ReplaceAllString(query, "INDEX ${2}_$1 ON $2")
}

var (
	changing = regexp.MustCompile(`^(?:WITH due AS \((.*)\) )?(?:UPDATE (\w+) SET (.*?)|DELETE (?:FROM )?(\w+))(?: OUTPUT (.*?))?(?: FROM (.*))?$`)
	relation = regexp.MustCompile(`("blobtx_\w+") (\w+)`)
	affected = regexp.MustCompile(`\b(inserted|deleted)\.(\w+)`)
)

// change does an UPDATE or a DELETE in two steps: what it means for each row,
// then the rows.
func (c *standInConn) change(ctx context.Context, query string, args []any) (out [][]any, n int64, err error) {
	if strings.HasPrefix(query, "DELETE FROM blobtx_") { // the harness's
		return nil, 0, c.exec(ctx, query)
	}
	if !c.open {
		if err := c.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
			return nil, 0, err
		}
		defer func() {
			statement := "COMMIT"
			if err != nil {
				statement = "ROLLBACK"
			}
			if end := c.exec(context.WithoutCancel(ctx), statement); err == nil {
				err = end
			}
		}()
	}
	m := changing.FindStringSubmatch(query)
	if m == nil {
		return nil, 0, fmt.Errorf("not known to the stand-in: %s", query)
	}
	cte, alias, sets, outs, from := m[1], m[2]+m[4], assignments(m[3]), m[5], m[6]
	table := ""
	if cte != "" {
		r := relation.FindStringSubmatch(cte)
		table = r[1]
		from = "(" + strings.Replace(cte, "SELECT ", "SELECT "+r[2]+".rowid AS at, ", 1) + ") due"
	}
	id := alias + ".at"
	for _, r := range relation.FindAllStringSubmatch(from, -1) {
		if r[2] == alias {
			table, id = r[1], alias+".rowid"
		}
	}
	values := []string{id}
	become := map[string]string{}
	for _, s := range sets {
		values = append(values, s[1])
		become[s[0]] = s[1]
	}
	if outs != "" {
		values = append(values, affected.ReplaceAllStringFunc(outs, func(column string) string {
			row, name, _ := strings.Cut(column, ".")
			if value, ok := become[name]; ok && row == "inserted" {
				return "(" + value + ")"
			}
			return alias + "." + name
		}))
	}
	rows, err := c.query(ctx, "SELECT "+strings.Join(values, ", ")+" FROM "+from, args)
	if err != nil {
		return nil, 0, err
	}
	statement := "DELETE FROM " + table + " WHERE rowid = ?1"
	if len(sets) > 0 {
		statement = "UPDATE " + table + " SET "
		for i, s := range sets {
			statement += fmt.Sprintf("%s = ?%d, ", s[0], i+2)
		}
		statement = strings.TrimSuffix(statement, ", ") + " WHERE rowid = ?1"
	}
	for _, row := range rows {
		if err := c.exec(ctx, statement, row[:1+len(sets)]...); err != nil {
			return nil, 0, err
		}
		out = append(out, row[1+len(sets):])
	}
	if outs == "" {
		out = nil
	}
	return out, int64(len(rows)), nil
}

// assignments splits what follows SET.
func assignments(text string) (all [][2]string) {
	depth, start := 0, 0
	for i, r := range text + "," {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == ',' && depth == 0 && i > start:
			column, value, _ := strings.Cut(strings.TrimSpace(text[start:i]), " = ")
			all = append(all, [2]string{column, value})
			start = i + 1
		}
	}
	return all
}
