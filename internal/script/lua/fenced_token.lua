-- Look at the counter of a fenced mutex.
-- KEYS  1 the counter
-- RETURN  the token of the last grant, 0 before the first
return tonumber(redis.call('get', KEYS[1])) or 0
