# The smallest workspace: answers every request with "ok". The port is the argument, or JupyterHub's.
# In Perl, which every Debian has, and without any of its modules, which take four times as long to load as it
# takes to start: what is measured is who starts it. The numbers are Linux's.
my ($PF_INET, $SOCK_STREAM, $SOL_SOCKET, $SO_REUSEADDR, $SO_RCVTIMEO) = (2, 1, 1, 2, 20);

my $port = shift // do { my ($found) = $ENV{JUPYTERHUB_SERVICE_URL} =~ m{://[^/]*:(\d+)}; $found };
socket(my $listener, $PF_INET, $SOCK_STREAM, 0) or die "socket: $!";
setsockopt($listener, $SOL_SOCKET, $SO_REUSEADDR, 1) or die "setsockopt: $!";
bind($listener, pack('S n C4 x8', $PF_INET, $port, 127, 0, 0, 1)) or die "bind: $!";
listen($listener, 64) or die "listen: $!";
$SIG{PIPE} = 'IGNORE';
while (accept(my $connection, $listener)) {
    setsockopt($connection, $SOL_SOCKET, $SO_RCVTIMEO, pack('l!l!', 1, 0));
    if (sysread($connection, my $request, 65536)) {
        syswrite($connection, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
    }
    close($connection);
}
