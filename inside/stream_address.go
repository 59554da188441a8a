package main

import (
	"net"
	"time"
)

// noDeadlines completes a net.Conn for a stream that has no address and no deadlines.
type noDeadlines struct{}

func (noDeadlines) LocalAddr() net.Addr              { return streamAddress{} }
func (noDeadlines) RemoteAddr() net.Addr             { return streamAddress{} }
func (noDeadlines) SetDeadline(time.Time) error      { return nil }
func (noDeadlines) SetReadDeadline(time.Time) error  { return nil }
func (noDeadlines) SetWriteDeadline(time.Time) error { return nil }

type streamAddress struct{}

func (streamAddress) Network() string { return "stdio" }
func (streamAddress) String() string  { return "codehub" }
