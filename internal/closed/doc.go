// Package closed notices connections and pools that their libraries have given up: nats.go closes a connection after some refusals of
// the server, and a pool of pgx is closed by its program. Whoever waits for either waits for ever. An interruption that a library works on
// ends nothing. What is returned wraps Err, with the library's last error and, where there is one, the option that keeps the connection.
package closed
