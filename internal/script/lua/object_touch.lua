-- Note that an object is in use.
-- KEYS  its keys
-- RETURN  1 done, 0 it has none of them
return math.min(redis.call('touch', unpack(KEYS)), 1)
