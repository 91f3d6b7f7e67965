-- Read a value.
-- KEYS  1 the value
-- RETURN  its text, or nothing
return redis.call('get', KEYS[1])
