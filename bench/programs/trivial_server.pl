# The smallest workspace: answers every request with "ok". The port is the argument, or JupyterHub's.
# In Perl, which every Debian has and which starts in a few milliseconds: what is measured is who starts it.
use strict;
use warnings;
use Socket;

my $port = shift // do { my ($found) = $ENV{JUPYTERHUB_SERVICE_URL} =~ m{://[^/]*:(\d+)}; $found };
socket(my $listener, PF_INET, SOCK_STREAM, 0) or die "socket: $!";
setsockopt($listener, SOL_SOCKET, SO_REUSEADDR, 1) or die "setsockopt: $!";
bind($listener, sockaddr_in($port, INADDR_LOOPBACK)) or die "bind: $!";
listen($listener, 64) or die "listen: $!";
$SIG{PIPE} = 'IGNORE';
while (accept(my $connection, $listener)) {
    setsockopt($connection, SOL_SOCKET, SO_RCVTIMEO, pack('l!l!', 1, 0));
    if (sysread($connection, my $request, 65536)) {
        syswrite($connection, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
    }
    close($connection);
}
