-- Return the size of a value.
-- KEYS  1 the value
-- RETURN  its length in bytes, 0 if there is none
return redis.call('strlen', KEYS[1])
