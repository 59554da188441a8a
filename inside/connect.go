package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"
)

// connected is the first byte of the output once there is a connection, so that CodeHub knows before it promises one.
const connected = '+'

// lingerAfterEnd is how long an answer may pause after CodeHub's side has ended: nobody may be left to read it.
const lingerAfterEnd = 10 * time.Second

// connectPort joins standard input and output with a port of the loopback: of a container, whose loopback is its own.
func connectPort(text string, in io.Reader, out io.Writer) error {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return fmt.Errorf("%q is not a port", text)
	}
	var connection net.Conn
	for _, host := range loopbackHosts("localhost") {
		connection, err = dial("tcp", net.JoinHostPort(host, text))
		if err == nil {
			break
		}
	}
	if err != nil {
		return err
	}
	defer connection.Close()
	if _, err := out.Write([]byte{connected}); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(connection, in)
		_ = connection.(*net.TCPConn).CloseWrite()
		_ = connection.SetReadDeadline(time.Now().Add(lingerAfterEnd))
	}()
	_, err = io.Copy(out, connection)
	if os.IsTimeout(err) {
		return nil
	}
	return err
}
