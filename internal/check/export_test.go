package check

var Settings = settings
