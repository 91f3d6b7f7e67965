-- Look at a mutex without touching it.
-- KEYS  1 the lock
-- RETURN  a list: the remaining ms (-1 never expires, -2 not held), then owner, count, ...;
--         of many owners only the first
return fields(KEYS[1])
