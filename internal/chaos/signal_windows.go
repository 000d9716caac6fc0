package chaos

import (
	"errors"
	"os"
)

func freeze(*os.Process) error { return errors.ErrUnsupported }

func wake(*os.Process) error { return errors.ErrUnsupported }
