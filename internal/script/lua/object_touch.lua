-- Update the last access time of an object.
-- KEYS  its keys
-- RETURN  1 done, 0 none of its keys exists
return math.min(redis.call('touch', unpack(KEYS)), 1)
