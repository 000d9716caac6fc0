package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// completions are the scripts of the shells: each asks the program for the next words.
var completions = map[string]string{
	"bash": `_postrider() {
	mapfile -t COMPREPLY < <(compgen -W "$(postrider __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}")" -- "${COMP_WORDS[COMP_CWORD]#=}")
}
complete -o default -F _postrider postrider
`,
	"zsh": `#compdef postrider
_postrider() {
	local -a found
	found=(${(f)"$(postrider __complete -- "${(@)words[2,CURRENT]}")"})
	if (( $#found )); then compadd -- $found; else _files; fi
}
compdef _postrider postrider
`,
	"fish": `complete -c postrider -a '(postrider __complete -- (commandline -opc)[2..-1] (commandline -ct | string collect --allow-empty))'
`,
}

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Shell: ${enum}."`
}

func (c *completionCmd) Help() string {
	return `Examples:
  postrider completion bash > /etc/bash_completion.d/postrider
  postrider completion zsh > "${fpath[1]}/_postrider"
  postrider completion fish > ~/.config/fish/completions/postrider.fish`
}

func (c *completionCmd) Run(s *session) error {
	_, err := fmt.Fprint(s.stdout, completions[c.Shell])
	return err
}

// completeCmd is asked by the scripts.
type completeCmd struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

func (c *completeCmd) Run(s *session) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	for _, one := range completed(s.kong.Model.Node, words) {
		fmt.Fprintln(s.stdout, one)
	}
	return nil
}

// completed returns the commands, flags or values that begin as the last word, given the words before it. None: it may be a file.
func completed(node *kong.Node, words []string) (found []string) {
	if len(words) == 0 || words[len(words)-1] == "=" {
		words = append(slices.Clone(words), "")
	}
	words = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "=" }) // bash splits words there
	flags := slices.Clone(node.Flags)
	var awaits *kong.Flag // the flag whose value comes next
	for _, word := range words[:len(words)-1] {
		switch name, isFlag := strings.CutPrefix(word, "--"); {
		case awaits != nil:
			awaits = nil
		case isFlag:
			if f := flagOf(flags, name); f != nil && !f.IsBool() {
				awaits = f
			}
		default:
			for _, child := range node.Children {
				if child.Name == word {
					node, flags = child, append(flags, child.Flags...)
				}
			}
		}
	}
	last := words[len(words)-1]
	before := ""
	if name, value, is := strings.Cut(last, "="); is && awaits == nil && strings.HasPrefix(name, "--") {
		awaits, last, before = flagOf(flags, strings.TrimPrefix(name, "--")), value, name+"="
	}
	var all []string
	switch {
	case awaits != nil:
		if awaits.Enum != "" {
			all = awaits.EnumSlice()
		}
	case strings.HasPrefix(last, "-"):
		for _, f := range flags {
			if !f.Hidden {
				all = append(all, "--"+f.Name)
			}
		}
	default:
		for _, child := range node.Children {
			if !child.Hidden {
				all = append(all, child.Name)
			}
		}
	}
	for _, one := range all {
		if strings.HasPrefix(one, last) {
			found = append(found, before+one)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func flagOf(flags []*kong.Flag, name string) *kong.Flag {
	for _, f := range flags {
		if f.Name == name {
			return f
		}
	}
	return nil
}
