// Package closed notices connections and pools that their libraries have given up: nats.go closes a connection after some refusals of the
// server, and a pool of pgx is closed by its program. A wait for either never ends. An interruption that a library works on ends nothing.
// Returned errors wrap Err, with the library's last error and, where there is one, the option that keeps the connection.
package closed
