-- Measure a value.
-- KEYS  1 the value
-- RETURN  how many bytes it has, 0 if there is none
return redis.call('strlen', KEYS[1])
