"""The control loop: five leaders, one loop, one connection each."""
