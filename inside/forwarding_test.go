package main

import "testing"

func TestOnlyTheWorkspaceItselfIsForwardedTo(t *testing.T) {
	for _, name := range []string{"localhost", "LOCALHOST", "127.0.0.1", "127.1.2.3", "::1", ""} {
		if len(loopbackHosts(name)) == 0 {
			t.Errorf("%q was refused", name)
		}
	}
	for _, name := range []string{
		"0.0.0.0", "::", "10.0.0.1", "169.254.169.254", "::ffff:10.0.0.1", "example.org", "localhost.", "127.1", "2130706433",
		"127.0.0.1.nip.io", "host.docker.internal", "[::1]", "fe80::1%lo",
	} {
		if hosts := loopbackHosts(name); len(hosts) != 0 {
			t.Errorf("%q leads to %q", name, hosts)
		}
	}
}
