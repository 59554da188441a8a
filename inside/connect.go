package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

// How a connection to a port ended, in its last frame.
const (
	portEnded = 0
	portCut   = 1
)

// serveConnection joins CodeHub with a port of the loopback: of a container, whose loopback is its own. Both directions
// are frames, like those of a command: one says that there is a connection, the end of either direction is one, and this
// program stays until CodeHub closes. An engine may drop what is not read yet when a program ends, and whoever reads
// slowly would take a part for the whole.
func serveConnection(text string, in io.Reader, out io.Writer) {
	told := &frameWriter{out: out}
	link := newCommandLink()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() {
		<-stop
		link.lose()
	}()
	connection, err := dialLoopback(text)
	if err != nil {
		go link.receive(in, ignoreFrames{})
		_ = told.write(frameRefused, []byte(err.Error()))
		<-link.lost
		return
	}
	defer connection.Close()
	_ = told.write(frameAttached, nil)
	go link.receive(in, &portInput{newInputQueue(sendingHalf{connection}, told)})
	go func() { _ = told.write(frameExit, []byte{copyPort(told, connection)}) }()
	<-link.lost // also while somebody writes and nobody reads
}

func dialLoopback(text string) (*net.TCPConn, error) {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return nil, fmt.Errorf("%q is not a port", text)
	}
	for _, host := range loopbackHosts("localhost") {
		var connection net.Conn
		if connection, err = dial("tcp", net.JoinHostPort(host, text)); err == nil {
			return connection.(*net.TCPConn), nil
		}
	}
	return nil, err
}

// copyPort tells what the port says, and how it ended.
func copyPort(told *frameWriter, from io.Reader) byte {
	buffer := make([]byte, outputPiece)
	for {
		count, err := from.Read(buffer)
		if count > 0 && told.write(frameOutput, buffer[:count]) != nil {
			return portCut
		}
		if errors.Is(err, io.EOF) {
			return portEnded
		}
		if err != nil {
			return portCut
		}
	}
}

// sendingHalf is the direction to the port: closing it leaves the other one open.
type sendingHalf struct{ *net.TCPConn }

func (h sendingHalf) Close() error { return h.CloseWrite() }

// portInput passes frames of CodeHub on to the port.
type portInput struct{ queue *inputQueue }

func (p *portInput) takeFrame(kind byte, data []byte) error {
	switch kind {
	case frameInput:
		if !p.queue.add(data) {
			return errFrame
		}
	case frameInputEnd:
		p.queue.end()
	default:
		return errFrame
	}
	return nil
}
