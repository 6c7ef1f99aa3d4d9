package azfake

import (
	"errors"
	"strings"
)

// tagQuery is a parsed x-ms-if-tags condition: alternatives of comparisons
// that must all hold ("Specifying conditional headers", and "Manage and find
// data with blob index tags"). The zero value holds for everything.
type tagQuery [][]comparison

type comparison struct{ key, op, value string }

// met says whether tags meet the condition. A tag that is missing meets
// nothing, not even "differs from".
func (q tagQuery) met(tags map[string]string) bool {
	if len(q) == 0 {
		return true
	}
	for _, all := range q {
		if allMet(all, tags) {
			return true
		}
	}
	return false
}

func allMet(all []comparison, tags map[string]string) bool {
	for _, c := range all {
		v, ok := tags[c.key]
		if !ok || !c.met(v) {
			return false
		}
	}
	return true
}

// met compares as strings, byte by byte.
func (c comparison) met(v string) bool {
	order := strings.Compare(v, c.value)
	switch c.op {
	case "=":
		return order == 0
	case "<>":
		return order != 0
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	}
	return order >= 0
}

// parseTagQuery reads: "key" op 'value' { AND | OR "key" op 'value' }, where
// AND binds closer.
func parseTagQuery(src string) (tagQuery, error) {
	p := &tagParser{rest: src}
	q := tagQuery{nil}
	for {
		c, err := p.comparison()
		if err != nil {
			return nil, err
		}
		last := len(q) - 1
		q[last] = append(q[last], c)
		switch word := p.word(); word {
		case "":
			if p.rest != "" {
				return nil, errors.New("expected AND or OR at " + p.rest)
			}
			return q, nil
		case "AND":
		case "OR":
			q = append(q, nil)
		default:
			return nil, errors.New("expected AND or OR, not " + word)
		}
	}
}

type tagParser struct{ rest string }

func (p *tagParser) skip() { p.rest = strings.TrimLeft(p.rest, " \t") }

func (p *tagParser) comparison() (comparison, error) {
	key, err := p.quoted('"')
	if err != nil {
		return comparison{}, err
	}
	if key == "" {
		return comparison{}, errors.New("a tag name is empty")
	}
	op, err := p.operator()
	if err != nil {
		return comparison{}, err
	}
	value, err := p.quoted('\'')
	return comparison{key, op, value}, err
}

func (p *tagParser) quoted(quote byte) (string, error) {
	p.skip()
	if p.rest == "" || p.rest[0] != quote {
		return "", errors.New("expected " + string(quote) + " at " + p.rest)
	}
	text, rest, ok := strings.Cut(p.rest[1:], string(quote))
	if !ok {
		return "", errors.New("a quote is not closed")
	}
	p.rest = rest
	return text, nil
}

func (p *tagParser) operator() (string, error) {
	p.skip()
	for _, op := range []string{"<>", "<=", ">=", "=", "<", ">"} {
		if rest, ok := strings.CutPrefix(p.rest, op); ok {
			p.rest = rest
			return op, nil
		}
	}
	return "", errors.New("expected an operator at " + p.rest)
}

func (p *tagParser) word() string {
	p.skip()
	end := 0
	for end < len(p.rest) && isLetter(p.rest[end]) {
		end++
	}
	word := p.rest[:end]
	p.rest = p.rest[end:]
	return strings.ToUpper(word)
}

func isLetter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }
