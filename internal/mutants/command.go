package mutants

func init() { All = append(All, ofCommand...) }

// ofCommand holds the mutants of the command, of the rights of Check, and of
// messages to users.
var ofCommand = []Mutant{
	{
		"locks need the right to read the settings of the server",
		"internal/check/acl.go", `"unsubscribe", "wait"},`, `"unsubscribe", "wait", "config|get"},`,
		"internal/check", "TestDocumentedRights$",
	},
	{
		"the rights for a prefix match names that only contain it",
		"internal/script/rights.go", `keys = []string{prefix + "*"}`, `keys = []string{"*" + prefix + "*"}`,
		"internal/check", "TestDocumentedRights$",
	},
	{
		"a setting that the user may not read counts as checked",
		"internal/check/rules.go", "		s.hidden = append(s.hidden, name)", "		_ = s.hidden",
		"internal/check", "TestNotChecked",
	},
	{
		"without CONFIG GET a server that evicts locks passes",
		"internal/check/rules.go", "	if r, known := reported[name]; known {", "	if r, known := reported[name]; known && false {",
		"internal/check", "TestHiddenSettings",
	},
	{
		"warnings of a client without a logger are discarded",
		"logger.go", "return level >= slog.LevelWarn && slog", "return level > slog.LevelWarn && slog",
		"test/behaviour", "TestUnverifiedTLSIsSaid",
	},
	{
		"a file with settings has any size",
		"open.go", "if err == nil && len(text) > maxConfig {", "if false {",
		"test/behaviour", "TestOpenConfigFails",
	},
	{
		"TLS that checks only the authority ignores the server name",
		"internal/config/servers.go", `case chain && f.serverName != "":`, `case chain && false:`,
		"internal/config", "TestVerification",
	},
	{
		"the error repeats an unknown parameter of a URL",
		"driver/rueidis/url.go", `"parameter %d of the URL is unknown: known are %s", i+1,`, `"parameter %d of the URL is unknown ("+name+"): known are %s", i+1,`,
		"driver/rueidis", "TestParseURLRefuses",
	},
	{
		"the error text of a server has no length limit",
		"driver/errors.go", "if len(text) > longest {", "if false {",
		"driver", "TestServerErrorIsBounded",
	},
	{
		"any answer counts as that of a Redis server",
		"driver/rueidis/dial.go", "case len(line) > 0 && !strings.ContainsRune(replyTypes, rune(line[0])):", "case false:",
		"driver/rueidis", "TestNotRedis",
	},
	{
		"Open accepts a nil context",
		"open.go", "cmp.Or(checkContext(ctx), o.withDefaults().check())", "cmp.Or(nil, o.withDefaults().check())",
		"test/behaviour", "TestNilAndZero",
	},
	{
		"a zero lock is used",
		"named.go", "	case o.client == nil:\n", "	case false:\n",
		"test/behaviour", "TestNilAndZero",
	},
	{
		"the command asks whether the server runs although it has answered",
		"cmd/holdfast/exit.go", "	case unanswered(err):", "	case errors.Is(err, holdfast.ErrUnavailable) || unanswered(err):",
		"cmd/holdfast", "TestServerHint",
	},
	{
		"the holder of a program that run starts has no label",
		"cmd/holdfast/run.go", "		o.Label = filepath.Base(j.program[0])", "		_ = filepath.Base",
		"cmd/holdfast", "TestRunLabel",
	},
	{
		"a label of run hides that of the configuration file",
		"cmd/holdfast/run.go", `if j.label == "" && j.target.config != "" &&`, `if false && j.target.config != "" &&`,
		"cmd/holdfast", "TestRunLabel",
	},
	{
		"ls cuts the process id off in a narrow terminal",
		"cmd/holdfast/ls_table.go", "Style: style, Tail: len(pid)}", "Style: style}",
		"cmd/holdfast", "TestNarrow",
	},
	{
		"text is as wide as it wants in a narrow terminal",
		"cmd/holdfast/internal/term/term.go", "	if !s.Terminal() {\n		return text\n	}\n	width", "	if true {\n		return text\n	}\n	width",
		"cmd/holdfast", "TestNarrow",
	},
	{
		"a picture without animation is empty",
		"cmd/holdfast/internal/vt/svg.go", "	hidden := \"\" //", "	hidden := ` visibility=\"hidden\"` //",
		"cmd/holdfast/internal/vt", "TestSVG",
	},
	{
		"show and unlock take a wrong name for a free lock",
		"cmd/holdfast/absent.go", "return lock.Kind == inspect.Mutex && lsFree", "return false && lsFree",
		"cmd/holdfast", "TestAbsent$",
	},
	{
		"unlock tries to break the lock of another library",
		"cmd/holdfast/unlock.go", "	case seen.Kind == plainKind:", "	case false:",
		"cmd/holdfast", "TestPlain$",
	},
	{
		"unlock says that a Redisson client notices soon",
		"cmd/holdfast/unlock.go", "		case h.Client.Java:", "		case false:",
		"cmd/holdfast", "TestUnlockNotice",
	},
}
