package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

const (
	maxRequestBytes = 4 << 20
	maxFrameBytes   = 1 << 20
	heartbeatFrame  = 0xFFFFFFFF
	requestSilence  = 75 * time.Second
	abandonGrace    = 5 * time.Second
)

// Request is the first line on standard input, a JSON object: one thing to do for CodeHub's API. Frames follow it: a
// length of four bytes and as many bytes of data. Length 0 ends the data; the highest length is a heartbeat without
// data. So the end of the data differs from a connection that was lost, after which nothing half done must be left.
type Request struct {
	Do string `json:"do"`

	// commands; of a detached one it is the id
	Arguments      []string      `json:"argv"`
	Environment    []string      `json:"env"`
	Directory      string        `json:"cwd"`
	Input          []byte        `json:"stdin"`
	Size           *terminalSize `json:"tty"` // nil: no terminal
	Process        string        `json:"process"`
	TimeoutSeconds float64       `json:"timeout_seconds"` // of a detached one; 0: none
	Signal         string        `json:"signal"`
	Follow         bool          `json:"follow"`

	// files; paths begin at the home unless they are absolute
	Path      string `json:"path"`
	Target    string `json:"target"`
	Offset    int64  `json:"offset"`
	Length    int64  `json:"length"` // negative: to the end
	Limit     int64  `json:"limit"`  // of entries, or of bytes
	Parents   bool   `json:"parents"`
	Overwrite bool   `json:"overwrite"`
	Recursive bool   `json:"recursive"`

	// ports
	OwnOnly bool `json:"own_only"`
}

// serveRequest does one request and returns the exit code.
func serveRequest(in io.Reader, out *os.File) int {
	reader := bufio.NewReaderSize(in, 64*1024)
	request, err := readRequest(reader)
	if err != nil {
		fmt.Fprintf(os.Stderr, "inside: %v\n", err)
		return 1
	}
	input := newFramedInput(reader)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() {
		<-stop
		input.lose(errors.New("told to end"))
	}()
	account := findAccount()
	done := make(chan int, 1)
	files := &Files{home: account.Home, out: out, input: input}
	go func() { done <- files.serve(request) }()
	select {
	case code := <-done:
		// Until CodeHub has read it all and closes: an engine may drop what is not read when a command ends.
		<-input.lost
		return code
	case <-input.lost:
	}
	select { // who waits for data is told; who writes to nobody may wait for ever
	case code := <-done:
		return code
	case <-time.After(abandonGrace):
		files.abandon()
		return 1
	}
}

func readRequest(reader *bufio.Reader) (Request, error) {
	var request Request
	line, err := readLine(reader)
	if err != nil {
		return request, err
	}
	if err := json.Unmarshal(line, &request); err != nil {
		return request, errors.New("the first line is not what CodeHub sends: start this through CodeHub")
	}
	return request, nil
}

func readLine(reader *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		piece, err := reader.ReadSlice('\n')
		line = append(line, piece...)
		if len(line) > maxRequestBytes {
			return nil, errors.New("the request is too long")
		}
		if err == nil {
			return line, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, fmt.Errorf("the connection ended before its first line: %w", err)
		}
	}
}

// framedInput reads frames. Data waits in a pipe for whoever reads it; lost is closed when the connection is gone.
type framedInput struct {
	data *io.PipeReader
	lost chan struct{}

	write *io.PipeWriter
	timer *time.Timer
	once  sync.Once
}

func newFramedInput(reader io.Reader) *framedInput {
	data, write := io.Pipe()
	input := &framedInput{data: data, write: write, lost: make(chan struct{})}
	input.timer = time.AfterFunc(requestSilence, func() { input.lose(errors.New("nothing was heard for too long")) })
	go input.receive(reader)
	return input
}

func (i *framedInput) receive(reader io.Reader) {
	var head [4]byte
	for {
		if _, err := io.ReadFull(reader, head[:]); err != nil {
			i.lose(fmt.Errorf("the connection was lost: %w", err))
			return
		}
		i.timer.Reset(requestSilence)
		length := binary.BigEndian.Uint32(head[:])
		switch {
		case length == heartbeatFrame:
		case length == 0:
			_ = i.write.Close()
		case length > maxFrameBytes:
			i.lose(errors.New("a frame is too long"))
			return
		default:
			// The reader is the disk: it does not stop for ever, and silence is not counted meanwhile.
			i.timer.Stop()
			if _, err := io.CopyN(i.write, reader, int64(length)); err != nil {
				i.lose(err)
				return
			}
			i.timer.Reset(requestSilence)
		}
	}
}

// lose ends the data with an error, so that nobody takes what came so far for the whole.
func (i *framedInput) lose(why error) {
	i.once.Do(func() {
		_ = i.write.CloseWithError(why)
		close(i.lost)
	})
}
