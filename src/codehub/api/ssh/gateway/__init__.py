"""The SSH gateway: a port that leads people with a plain SSH client to their workspaces (ADR 0044).

``ssh -J USER@hub:2222 NAME`` signs in here by public key and opens one channel to NAME, port 22, which is carried to
``inside ssh`` in that workspace as the API's WebSocket is. Everything else is refused. Imports asyncssh, which takes
30 MiB: ``server/ssh_gateway`` imports it only where the port is wanted.
"""
