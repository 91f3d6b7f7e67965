-- Check whether an object exists.
-- KEYS  its keys
-- RETURN  1 one of its keys exists, 0 none does
return math.min(redis.call('exists', unpack(KEYS)), 1)
