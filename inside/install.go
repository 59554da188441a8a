package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// install copies a program into a directory, under the name inside, where nobody sees it in part.
func install(program, directory string) (err error) {
	source, err := os.Open(program)
	if err != nil {
		return err
	}
	defer source.Close()
	copied, err := os.CreateTemp(directory, ".inside-*")
	if err != nil {
		return fmt.Errorf("cannot write to %s: %w", directory, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(copied.Name())
		}
	}()
	if _, err = io.Copy(copied, source); err == nil {
		err = copied.Chmod(0o555)
	}
	if closed := copied.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(copied.Name(), filepath.Join(directory, "inside"))
}
