package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// benchmark is a row of the table of benchmarks: one that threads run and that gives a result line, or an action.
type benchmark struct {
	name, help string
	fresh      bool                // wants an empty database
	prepare    func(*work)         // may be nil
	extra      int                 // threads besides those asked for
	single     bool                // runs in one thread only
	oneFamily  bool                // works with one column family only
	fits       func(*config) error // says what of the flags it does not go with; may be nil
	run        func(*thread) error
	after      func(*bench) error // done when all runs are over; may be nil
	action     func(*bench) error
}

// task is one item of --benchmarks.
type task struct {
	*benchmark
	warmups, repeats int
}

// parseTasks reads --benchmarks.
func parseTasks(list string) (tasks []task, err error) {
	var errs []error
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		t, err := parseTask(item)
		errs = append(errs, err)
		tasks = append(tasks, t)
	}
	return tasks, errors.Join(errs...)
}

// parseTask reads name, name[X3], name[W1] or name[W1-X3].
func parseTask(item string) (t task, err error) {
	name, args, hasArgs := strings.Cut(item, "[")
	t.repeats = 1
	if hasArgs {
		args, ok := strings.CutSuffix(args, "]")
		if !ok {
			return t, fmt.Errorf("benchmark '%s': ']' is missing", item)
		}
		for arg := range strings.SplitSeq(args, "-") {
			n := 0
			if len(arg) > 1 {
				if n, err = strconv.Atoi(arg[1:]); err != nil {
					n = 0
				}
			}
			switch {
			case n > 0 && (arg[0] == 'X' || arg[0] == 'x'):
				t.repeats = n
			case n > 0 && (arg[0] == 'W' || arg[0] == 'w'):
				t.warmups = n
			default:
				return t, fmt.Errorf("benchmark '%s': '%s' is neither X and a number of repeats nor W and one of warm-ups", item, arg)
			}
		}
	}
	i := slices.IndexFunc(benchmarks, func(b benchmark) bool { return b.name == name })
	if i < 0 {
		if why, ok := unsupported[name]; ok {
			return t, fmt.Errorf("benchmark '%s' is not supported: %s", name, why)
		}
		return t, fmt.Errorf("unknown benchmark '%s'", name)
	}
	t.benchmark = &benchmarks[i]
	if t.action != nil && hasArgs {
		return t, fmt.Errorf("benchmark '%s': only what has a result line can be repeated", item)
	}
	return t, nil
}

// fit finds tasks that do not go with the flags.
func fit(tasks []task, c *config) error {
	var errs []error
	for _, t := range tasks {
		if t.oneFamily && c.families > 1 {
			errs = append(errs, fmt.Errorf("benchmark '%s' works with one column family only", t.name))
		}
		if t.fits != nil {
			if err := t.fits(c); err != nil {
				errs = append(errs, fmt.Errorf("benchmark '%s' %w", t.name, err))
			}
		}
	}
	return errors.Join(errs...)
}
