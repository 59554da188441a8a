package main

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"testing"
	"time"
)

// portClient is CodeHub's side of serveConnection.
type portClient struct {
	t    *testing.T
	in   *io.PipeWriter
	out  *io.PipeReader
	done chan struct{}
}

func connectTo(t *testing.T, port string) *portClient {
	inReader, in := io.Pipe()
	out, outWriter := io.Pipe()
	client := &portClient{t, in, out, make(chan struct{})}
	go func() {
		serveConnection(port, inReader, outWriter)
		close(client.done)
	}()
	return client
}

func (c *portClient) next() (byte, string) {
	kind, data, err := readFrame(c.out, make([]byte, maxTerminalFrame))
	if err != nil {
		c.t.Fatal(err)
	}
	return kind, string(data)
}

// said is what comes until a frame that is no output, and that frame.
func (c *portClient) said() (string, byte, string) {
	var said bytes.Buffer
	for {
		switch kind, data := c.next(); kind {
		case frameOutput:
			said.WriteString(data)
		case frameTook:
		default:
			return said.String(), kind, data
		}
	}
}

func (c *portClient) leave() {
	c.in.Close()
	select {
	case <-c.done:
	case <-time.After(10 * time.Second):
		c.t.Error("it stays after CodeHub has closed")
	}
}

func listenOn(t *testing.T, address string, serve func(*net.TCPConn)) string {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Skipf("no %s here: %v", address, err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		if connection, err := listener.Accept(); err == nil {
			serve(connection.(*net.TCPConn))
		}
	}()
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}

func TestAPortOfTheLoopbackIsJoined(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		port := listenOn(t, address, func(connection *net.TCPConn) {
			said, _ := io.ReadAll(connection) // the end of one direction arrives alone
			_, _ = connection.Write(append([]byte("heard "), said...))
			connection.Close()
		})
		client := connectTo(t, port)
		if kind, _ := client.next(); kind != frameAttached {
			t.Fatalf("%s: %c", address, kind)
		}
		_ = writeFrame(client.in, frameInput, []byte("hello"))
		_ = writeFrame(client.in, frameInputEnd, nil)
		if said, kind, how := client.said(); said != "heard hello" || kind != frameExit || how != "\x00" {
			t.Errorf("%s: %q, %c %q", address, said, kind, how)
		}
		client.leave()
	}
}

func TestItStaysUntilAllWasReadAndCodeHubCloses(t *testing.T) {
	port := listenOn(t, "127.0.0.1:0", func(connection *net.TCPConn) {
		_, _ = connection.Write([]byte("all"))
		connection.Close()
	})
	client := connectTo(t, port)
	_, _ = client.next()
	if said, kind, how := client.said(); said != "all" || kind != frameExit || how != "\x00" {
		t.Errorf("%q, %c %q", said, kind, how)
	}
	select {
	case <-client.done:
		t.Error("it ended before CodeHub closed: an engine may drop what was not read")
	case <-time.After(200 * time.Millisecond):
	}
	client.leave()
}

func TestAConnectionThatIsResetIsNoEnd(t *testing.T) {
	port := listenOn(t, "127.0.0.1:0", func(connection *net.TCPConn) {
		_, _ = connection.Read([]byte{0}) // so that it is not reset before there is a connection
		_ = connection.SetLinger(0)
		connection.Close()
	})
	client := connectTo(t, port)
	_, _ = client.next()
	_ = writeFrame(client.in, frameInput, []byte("x"))
	if _, kind, how := client.said(); kind != frameExit || how != "\x01" {
		t.Errorf("%c %q", kind, how)
	}
	client.leave()
}

func TestAClosedPortIsRefusedInWords(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	listener.Close()
	for _, text := range []string{port, "0", "65536", "80 ", "-1", "host:80", ""} {
		client := connectTo(t, text)
		if kind, why := client.next(); kind != frameRefused || why == "" {
			t.Errorf("%q: %c %q", text, kind, why)
		}
		client.leave()
	}
}
