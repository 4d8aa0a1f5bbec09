package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// flagSet reads command lines as gflags does: --x=v, --x v, -x=v, -x v; for a bool also --x and --nox, and there the
// value has to stand behind the =. Names may be written with - for _. Each flag is one of
//
//   - honoured: it has a variable;
//   - accepted: it is read and checked, and changes nothing, for a reason that --help tells;
//   - refused: any value but its default is an error that tells why.
type flagSet struct {
	flags  []*flagDef
	byName map[string]*flagDef
}

type flagKind string

const (
	boolFlag   flagKind = "bool"
	intFlag    flagKind = "int64"
	uintFlag   flagKind = "uint64"
	floatFlag  flagKind = "double"
	stringFlag flagKind = "string"
)

type flagDef struct {
	name, def, help string
	kind            flagKind
	own             bool                   // not one of db_bench's
	given           bool                   // on the command line
	accepted        string                 // why it changes nothing
	refused         string                 // why only the default goes
	alias           string                 // of the default, if it is refused
	store           func(value any)        // nil if accepted or refused
	check           func(value any) string // what is wrong with a value, or ""
}

// atLeast is a check for numbers.
func atLeast[N int | int64 | uint64 | float64](least N) func(any) string {
	return func(v any) string {
		if x := v.(N); x < least {
			return fmt.Sprintf("want %v or more", least)
		}
		return ""
	}
}

// between is a check for whole numbers.
func between(least, most int64) func(any) string {
	return func(v any) string {
		if n := v.(int64); n < least || n > most {
			return fmt.Sprintf("want %d to %d", least, most)
		}
		return ""
	}
}

var percent = between(0, 100)

func (s *flagSet) add(f *flagDef) *flagDef {
	if s.byName == nil {
		s.byName = map[string]*flagDef{}
	}
	if _, twice := s.byName[f.name]; twice {
		panic("flag " + f.name + " is defined twice")
	}
	s.flags = append(s.flags, f)
	s.byName[f.name] = f
	if v, err := f.parse(f.def); err != nil {
		panic(err)
	} else if f.store != nil {
		f.store(v)
	}
	return f
}

func (s *flagSet) Bool(p *bool, name string, def bool, help string) *flagDef {
	return s.add(&flagDef{name: name, kind: boolFlag, def: strconv.FormatBool(def), help: help,
		store: func(v any) { *p = v.(bool) }})
}

func (s *flagSet) Int(p *int64, name string, def int64, help string) *flagDef {
	return s.add(&flagDef{name: name, kind: intFlag, def: strconv.FormatInt(def, 10), help: help,
		store: func(v any) { *p = v.(int64) }})
}

func (s *flagSet) Uint(p *uint64, name string, def uint64, help string) *flagDef {
	return s.add(&flagDef{name: name, kind: uintFlag, def: strconv.FormatUint(def, 10), help: help,
		store: func(v any) { *p = v.(uint64) }})
}

func (s *flagSet) Float(p *float64, name string, def float64, help string) *flagDef {
	return s.add(&flagDef{name: name, kind: floatFlag, def: strconv.FormatFloat(def, 'g', -1, 64), help: help,
		store: func(v any) { *p = v.(float64) }})
}

func (s *flagSet) String(p *string, name, def, help string) *flagDef {
	return s.add(&flagDef{name: name, kind: stringFlag, def: def, help: help, store: func(v any) { *p = v.(string) }})
}

// accept defines a flag that changes nothing here.
func (s *flagSet) accept(kind flagKind, name, def, why string) *flagDef {
	return s.add(&flagDef{name: name, kind: kind, def: def, accepted: why})
}

// refuse defines a flag of which only the default is supported.
func (s *flagSet) refuse(kind flagKind, name, def, why string) *flagDef {
	return s.add(&flagDef{name: name, kind: kind, def: def, refused: why})
}

// want adds a check.
func (f *flagDef) want(check func(value any) string) *flagDef {
	f.check = check
	return f
}

// also gives the default of a refused flag a second spelling.
func (f *flagDef) also(alias string) *flagDef {
	f.alias = alias
	return f
}

// oneOf is a check for strings, case aside.
func oneOf(values ...string) func(any) string {
	return func(v any) string {
		for _, o := range values {
			if strings.EqualFold(o, v.(string)) {
				return ""
			}
		}
		return "want one of " + strings.Join(values, ", ")
	}
}

// parse turns text into the flag's kind.
func (f *flagDef) parse(text string) (v any, err error) {
	switch f.kind {
	case boolFlag:
		switch strings.ToLower(text) {
		case "true", "t", "yes", "y", "1":
			return true, nil
		case "false", "f", "no", "n", "0":
			return false, nil
		}
		err = strconv.ErrSyntax
	case intFlag:
		v, err = strconv.ParseInt(text, base(text), 64)
	case uintFlag:
		v, err = strconv.ParseUint(text, base(text), 64)
	case floatFlag:
		var x float64
		if x, err = strconv.ParseFloat(text, 64); math.IsNaN(x) {
			err = strconv.ErrSyntax
		}
		v = x
	default:
		v = text
	}
	if err != nil {
		return nil, fmt.Errorf("illegal value '%s' specified for %s flag '%s'", text, f.kind, f.name)
	}
	return v, nil
}

// base is that of a number: leading zeros do not make it octal.
func base(text string) int {
	if digits := strings.TrimLeft(text, "+-"); strings.HasPrefix(digits, "0x") || strings.HasPrefix(digits, "0X") {
		return 0
	}
	return 10
}

// set gives the flag the value of text.
func (f *flagDef) set(text string) error {
	v, err := f.parse(text)
	if err != nil {
		return err
	}
	if f.check != nil {
		if wrong := f.check(v); wrong != "" {
			return fmt.Errorf("--%s=%s: %s", f.name, text, wrong)
		}
	}
	if f.refused != "" && (f.alias == "" || text != f.alias) {
		if def, err := f.parse(f.def); err != nil || def != v {
			return fmt.Errorf("--%s=%s is not supported: %s", f.name, text, f.refused)
		}
	}
	f.given = true
	if f.store != nil {
		f.store(v)
	}
	return nil
}

// errHelp is what parse returns for --help.
var errHelp = fmt.Errorf("help was asked for")

// parse reads a command line. Later flags win.
func (s *flagSet) parse(args []string) error {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		name := strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-")
		if name == arg || name == "" || name[0] == '-' {
			return fmt.Errorf("unexpected argument '%s'", arg)
		}
		name, value, hasValue := strings.Cut(name, "=")
		name = strings.ReplaceAll(name, "-", "_")
		if name == "help" || name == "h" {
			return errHelp
		}
		f := s.byName[name]
		if f == nil && !hasValue && strings.HasPrefix(name, "no") {
			if off := s.byName[name[2:]]; off != nil && off.kind == boolFlag {
				f, value, hasValue = off, "false", true
			}
		}
		switch {
		case f == nil:
			return fmt.Errorf("unknown command line flag '%s'", name)
		case hasValue:
		case f.kind == boolFlag:
			value = "true"
		case len(args) == 0:
			return fmt.Errorf("flag '--%s' is missing its argument", name)
		default:
			value, args = args[0], args[1:]
		}
		if err := f.set(value); err != nil {
			return err
		}
	}
	return nil
}

// given tells whether a flag was on the command line.
func (s *flagSet) given(name string) bool { return s.byName[name].given }

// printHelp lists the flags.
func (s *flagSet) printHelp(w io.Writer) {
	for _, part := range []struct {
		title string
		in    func(*flagDef) bool
	}{
		{"Flags", func(f *flagDef) bool { return f.store != nil && !f.own }},
		{"Flags that db_bench does not have", func(f *flagDef) bool { return f.own }},
		{"Flags that are accepted and change nothing", func(f *flagDef) bool { return f.accepted != "" }},
		{"Flags of which only the default is supported", func(f *flagDef) bool { return f.refused != "" }},
	} {
		fmt.Fprintf(w, "\n%s:\n", part.title)
		for _, f := range s.flags {
			if part.in(f) {
				fmt.Fprintf(w, "  --%s (%s) type: %s default: %s\n", f.name, f.help+f.accepted+f.refused, f.kind, f.shownDefault())
			}
		}
	}
}

func (f *flagDef) shownDefault() string {
	if f.kind == stringFlag {
		return strconv.Quote(f.def)
	}
	return f.def
}
