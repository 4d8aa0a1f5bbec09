// Package script runs plays: tests that are text files of commands and of what they answer. It is for tests, and a play
// makes a bug report that one can paste.
//
//	# A comment. It and blank lines between commands say nothing.
//	put a=1 b="two words\n"
//	load
//	  indented lines under a command
//	  are its input, less their indentation
//	get a
//	----
//	1
//
//	get zero
//	----
//	not found
//
// Commands stand one a line, and the line "----" asks for the answer of those since the last one: what they returned,
// one after the other, up to the first blank line. A blank line in an answer is written as one dot, and a line of dots
// as one dot more.
//
// The words of a command are split at spaces. A part in double quotes is a Go string and may stand anywhere in a word.
// What the commands are is the test's affair:
//
//	script.Run(t, "testdata/get.txt", func(cmd string, args []string, input string) string { … })
//
// "go test ./pkg -rewrite" writes the answers as they are into the files instead of failing; the diff is then to be read.
// A command that fails returns the error's text as its answer; it should not end the test.
//
// One goroutine runs a play. Different plays may run at once.
package script
