-- Return the state of a mutex without changing it.
-- USES  foreign inspect owned
-- KEYS  1 the lock
-- ARGV  1 1: also accept a read/write lock, 0: do not
-- RETURN  a list: the remaining ms (-1: never expires, -2: not held), then owner, count, ... for at most about a hundred owners
local mode, seen = owned(KEYS[1])
if mode == '' or mode and ARGV[1] == '1' then return seen end
return foreign(KEYS[1])
