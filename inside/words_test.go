package main

import (
	"slices"
	"testing"
)

func TestWordsAreSplitAsAShellWould(t *testing.T) {
	for line, expected := range map[string][]string{
		"/bin/true":                    {"/bin/true"},
		"  echo   a\tb ":               {"echo", "a", "b"},
		`echo 'a b' "c d" e\ f`:        {"echo", "a b", "c d", "e f"},
		`echo "say \"hi\"" 'it\is' ""`: {"echo", `say "hi"`, `it\is`, ""},
		`/bin/x --name='a'b"c"`:        {"/bin/x", "--name=abc"},
	} {
		words, err := splitWords(line)
		if err != nil || !slices.Equal(words, expected) {
			t.Errorf("%q: %q, %v", line, words, err)
		}
	}
}

func TestWhatNeedsAShellIsRefused(t *testing.T) {
	for _, line := range []string{"", "  ", "a | b", "a; b", "a > b", "echo $HOME", `echo "$HOME"`, "ls *", "'open", `"open`, "a && b"} {
		if words, err := splitWords(line); err == nil {
			t.Errorf("%q was split into %q", line, words)
		}
	}
}
