-- Proclaim the leader with a value. Idempotent.
-- KEYS  1 the lock that the leader holds
--       2 the channel of the observers
-- ARGV  1 owner
--       2 the value
--       3 PUBLISH or SPUBLISH
-- RETURN  1 done, 0 the owner does not lead
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
if redis.call('hget', KEYS[1], 'leader') == ARGV[2] then return 1 end
redis.call('hset', KEYS[1], 'leader', ARGV[2])
redis.pcall(ARGV[3], KEYS[2], ARGV[1]) -- the change is made even if the user may not publish
return 1
