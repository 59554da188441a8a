package main

import (
	"errors"
	"strings"
)

const shellCharacters = "|&;<>()$`*?[]{}~#!\n"

// splitWords splits a command line into words where there is no shell. Quotes and backslashes group as in a shell;
// anything else only a shell can do is refused, because running something similar would be worse than saying so.
func splitWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord := false
	for position := 0; position < len(line); position++ {
		character := line[position]
		switch {
		case character == ' ' || character == '\t':
			if inWord {
				words, inWord = append(words, word.String()), false
				word.Reset()
			}
			continue
		case character == '\'':
			end := strings.IndexByte(line[position+1:], '\'')
			if end < 0 {
				return nil, errors.New("a quote is not closed")
			}
			word.WriteString(line[position+1 : position+1+end])
			position += end + 1
		case character == '"':
			text, length, err := doubleQuoted(line[position+1:])
			if err != nil {
				return nil, err
			}
			word.WriteString(text)
			position += length
		case character == '\\' && position+1 < len(line):
			position++
			word.WriteByte(line[position])
		case strings.IndexByte(shellCharacters, character) >= 0:
			return nil, errors.New("it needs a shell for " + string(character))
		default:
			word.WriteByte(character)
		}
		inWord = true
	}
	if inWord {
		words = append(words, word.String())
	}
	if len(words) == 0 {
		return nil, errors.New("it is empty")
	}
	return words, nil
}

// doubleQuoted returns the text up to the closing quote, and how many bytes it took with that quote.
func doubleQuoted(rest string) (string, int, error) {
	var text strings.Builder
	for position := 0; position < len(rest); position++ {
		switch character := rest[position]; {
		case character == '"':
			return text.String(), position + 1, nil
		case character == '$' || character == '`':
			return "", 0, errors.New("it needs a shell for " + string(character))
		case character == '\\' && position+1 < len(rest) && strings.IndexByte("\"\\$`", rest[position+1]) >= 0:
			position++
			text.WriteByte(rest[position])
		default:
			text.WriteByte(character)
		}
	}
	return "", 0, errors.New("a quote is not closed")
}
