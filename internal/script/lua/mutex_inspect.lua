-- Look at a mutex without touching it.
-- KEYS  1 the lock
-- ARGV  1 1: at a read/write lock as well, 0: not
-- RETURN  a list: the remaining ms (-1 never expires, -2 not held), then owner, count, ...: at most about a hundred
local mode, seen = owned(KEYS[1])
if mode == '' or mode and ARGV[1] == '1' then return seen end
return foreign(KEYS[1])
