package check

var (
	Settings   = settings
	Publishing = publishing
)
