-- Look whether an object exists.
-- KEYS  its keys
-- RETURN  1 it does, 0 it has none of them
return math.min(redis.call('exists', unpack(KEYS)), 1)
