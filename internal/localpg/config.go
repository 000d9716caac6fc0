package localpg

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
)

// ErrInvalidConfig is wrapped by every error of Config.Validate.
var ErrInvalidConfig = errors.New("localpg: invalid configuration")

const highestPort = 65535

// Config describes one private server. The zero value is valid.
type Config struct {
	// DataDir is the PostgreSQL data directory: empty or absent (it is then created), or made by this
	// package earlier. Defaults to a temporary directory that Stop removes.
	DataDir string
	// BinDir is the folder that holds initdb and postgres. Defaults to the first pair found in PATH,
	// else the newest in the folders where distributions put them.
	BinDir string
	// Port is the server's, 1 to 65535; one that is taken is refused. Defaults to a free one.
	Port int
	// Settings are server parameters ("shared_buffers": "1GB"), applied at every start. They override the defaults of DefaultSettings and,
	// for a temporary DataDir, of TemporarySettings. Address, port and log destination belong to this package and are refused.
	Settings map[string]string
	// Environment is added to the server's, as "NAME=value".
	Environment []string
	// Logger receives life-cycle messages, and at debug level the server's output. Defaults to a logger that discards.
	Logger *slog.Logger
}

// DefaultSettings returns the server parameters of every private server. Prepared transactions are allowed because producers may use them and
// the delivery watermark has to be tested against them.
func DefaultSettings() map[string]string {
	return map[string]string{
		"max_connections":           "300",
		"max_prepared_transactions": "32",
		"timezone":                  "UTC",
		"log_timezone":              "UTC",
	}
}

// TemporarySettings returns those added for a temporary data directory: it need not survive the loss of the machine, so nothing is forced to
// disk. A crash of the server itself still loses nothing, because the operating system keeps the pages.
func TemporarySettings() map[string]string {
	return map[string]string{
		"fsync":            "off",
		"full_page_writes": "off",
	}
}

// reservedSettings returns the parameters whose change would break a promise of this package.
func reservedSettings() []string {
	return []string{
		"data_directory", "hba_file", "listen_addresses", "log_destination", "logging_collector",
		"port", "unix_socket_directories",
	}
}

// Validate reports the first field that cannot be used.
func (c Config) Validate() error {
	if c.Port < 0 || c.Port > highestPort {
		return fmt.Errorf("%w: Port is %d, must be 0 to %d", ErrInvalidConfig, c.Port, highestPort)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Settings)) {
		switch {
		case name == "" || strings.ContainsAny(name, "= \t\n\x00"):
			return fmt.Errorf("%w: Settings: %q is not a parameter name", ErrInvalidConfig, name)
		case strings.ContainsRune(c.Settings[name], 0):
			return fmt.Errorf("%w: Settings: the value of %s holds a zero byte", ErrInvalidConfig, name)
		case slices.Contains(reservedSettings(), strings.ToLower(name)):
			return fmt.Errorf("%w: Settings: %s is set by the package itself", ErrInvalidConfig, name)
		}
	}
	return nil
}

// arguments returns the command line of the server for its data directory and port.
func (c Config) arguments(dataDir string, port int) []string {
	settings := DefaultSettings()
	if c.DataDir == "" {
		maps.Copy(settings, TemporarySettings())
	}
	maps.Copy(settings, c.Settings)
	maps.Copy(settings, map[string]string{
		"listen_addresses":        listenAddress,
		"port":                    fmt.Sprint(port),
		"unix_socket_directories": "",
		"log_destination":         "stderr",
		"logging_collector":       "off",
	})
	args := []string{"-D", dataDir}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	return args
}
