package part

import (
	"fmt"
	"hash/fnv"
	"os"
)

// Variable names the part to run, such as 2/3.
const Variable = "POSTRIDER_PART"

// Has reports whether the name is in the part that the environment asks for.
func Has(name string) bool { return has(os.Getenv(Variable), name) }

func has(value, name string) bool {
	if value == "" {
		return true
	}
	var part, of uint32
	if n, err := fmt.Sscanf(value, "%d/%d", &part, &of); n != 2 || err != nil || part < 1 || part > of {
		panic(fmt.Sprintf("%s=%q: want a part such as 2/3", Variable, value))
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(name)) // a hash takes everything
	return sum.Sum32()%of == part-1
}
