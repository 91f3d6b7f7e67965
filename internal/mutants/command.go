package mutants

func init() { All = append(All, ofCommand...) }

// ofCommand are the mutants of the command, of what Check may see, and of what
// users are told.
var ofCommand = []Mutant{
	{
		"locks need the right to read the settings of the server",
		"internal/check/acl.go", `"unsubscribe", "wait"},`, `"unsubscribe", "wait", "config|get"},`,
		"internal/check", "TestDocumentedRights$",
	},
	{
		"a setting that the user cannot see counts as checked",
		"internal/check/rules.go", "		s.hidden = append(s.hidden, name)", "		_ = s.hidden",
		"internal/check", "TestNotChecked",
	},
	{
		"without CONFIG GET a server that evicts locks passes",
		"internal/check/rules.go", "	if r, known := reported[name]; known {", "	if r, known := reported[name]; known && false {",
		"internal/check", "TestHiddenSettings",
	},
}
