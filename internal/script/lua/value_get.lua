-- Read a value.
-- KEYS  1 the value
-- RETURN  the value, or nothing
return redis.call('get', KEYS[1])
