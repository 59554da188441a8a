package main

import "os"

// Pipes are the standard streams of a program: the ends it gets, and ours.
type Pipes struct {
	child                 []*os.File
	stdin, stdout, stderr *os.File
}

func openPipes() (*Pipes, error) {
	pipes := &Pipes{}
	var open []*os.File
	for index := range 3 {
		reading, writing, err := os.Pipe()
		if err != nil {
			for _, file := range open {
				file.Close()
			}
			return nil, err
		}
		open = append(open, reading, writing)
		theirs, ours := writing, reading
		if index == 0 {
			theirs, ours = reading, writing
		}
		pipes.child = append(pipes.child, theirs)
		switch index {
		case 0:
			pipes.stdin = ours
		case 1:
			pipes.stdout = ours
		case 2:
			pipes.stderr = ours
		}
	}
	return pipes, nil
}

func (p *Pipes) closeOwn() {
	p.stdin.Close()
	p.stdout.Close()
	p.stderr.Close()
}

func (p *Pipes) closeChild() {
	for _, file := range p.child {
		file.Close()
	}
}
