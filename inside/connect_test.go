package main

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
)

func TestAPortOfTheLoopbackIsJoined(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Skipf("no %s here: %v", address, err)
		}
		go func() {
			connection, _ := listener.Accept()
			said, _ := io.ReadAll(connection) // the end of one direction arrives alone
			_, _ = connection.Write(append([]byte("heard "), said...))
			connection.Close()
		}()
		port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
		var out bytes.Buffer
		if err := connectPort(port, strings.NewReader("hello"), &out); err != nil {
			t.Fatal(err)
		}
		if out.String() != "+heard hello" {
			t.Errorf("%s: %q", address, out.String())
		}
		listener.Close()
	}
}

func TestAClosedPortSaysNothing(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	listener.Close()
	var out bytes.Buffer
	for _, text := range []string{port, "0", "65536", "80 ", "-1", "host:80", ""} {
		if err := connectPort(text, strings.NewReader(""), &out); err == nil || out.Len() != 0 {
			t.Errorf("%q: %v, %q", text, err, out.String())
		}
	}
}
