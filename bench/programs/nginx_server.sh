#!/bin/sh
# A workspace that is fast enough not to be what is measured: nginx with a small answer and a large file.
# nginx_server.sh PORT|SOCKET DIRECTORY
set -eu
where=127.0.0.1:$1 directory=$2
case $1 in /*) where=unix:$1 ;; esac
mkdir -p "$directory/tmp"
[ -e "$directory/large" ] || truncate -s 256M "$directory/large"
user=
[ "$(id -u)" != 0 ] || user="user root;" # a home is closed to the user nginx would take
cat >"$directory/nginx.conf" <<EOF
$user
worker_processes 1;
daemon off;
pid $directory/nginx.pid;
error_log stderr warn;
events { worker_connections 1024; }
http {
  access_log off;
  sendfile on;
  keepalive_requests 1000000;
  client_body_temp_path $directory/tmp;
  proxy_temp_path $directory/tmp;
  fastcgi_temp_path $directory/tmp; # made at the start even where unused, and /var cannot be written here
  uwsgi_temp_path $directory/tmp;
  scgi_temp_path $directory/tmp;
  server {
    listen $where;
    location = /large { root $directory; }
    location / { return 200 "a small body, as an IDE asks for all day long\n"; }
  }
}
EOF
exec nginx -e stderr -p "$directory" -c "$directory/nginx.conf"
