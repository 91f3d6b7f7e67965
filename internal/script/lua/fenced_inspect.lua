-- Return the state of a fenced mutex and its last token without changing anything.
-- USES  counter foreign inspect owned
-- KEYS  1 the lock
--       2 the counter of tokens
-- RETURN  two: a list of the remaining ms (-1: never expires, -2: not held), then owner, count;
--         the token of the last grant as text, 0 before the first
local mode, seen = owned(KEYS[1])
if mode ~= '' then return foreign(KEYS[1]) end
local token, err = last(KEYS[2])
return err or {seen, token}
