package mutants

func init() { All = append(All, discovery...) }

// discovery are the mutants of how a driver finds out which server is the
// master.
var discovery = []Mutant{
	{
		"two masters: the one that was used last is used on",
		"driver/rueidis/route.go", "			d.doubt(c, found)\n", "			_ = c\n",
		"driver/rueidis", "TestTwoMasters$",
	},
	{
		"two masters: the first is used",
		"driver/rueidis/replicated.go", "	case len(masters) > 1:\n", "	case len(masters) > 2:\n",
		"driver/rueidis", "TestTwoMasters$",
	},
	{
		"two masters: watchers are not told that no server is used",
		"driver/rueidis/route.go", "		d.use(&table{why: c}, found)\n", "		d.table.Store(&table{why: c})\n",
		"driver/rueidis", "TestTwoMasters$",
	},
	{
		"two masters: the one that answers late is overlooked",
		"driver/rueidis/replicated.go", "return l.master }, grace)", "return l.master }, min(grace, briefly))",
		"driver/rueidis", "TestTwoMasters$",
	},
	{
		"servers that do not answer empty the table",
		"driver/rueidis/route.go", "		if c := (*conflict)(nil); errors.As(err, &c) {\n", "		if c := (&conflict{err.Error()}); c != nil {\n",
		"driver/rueidis", "TestAbsentWitnesses",
	},
}
