-- Free a mutex, whichever owner holds it.
-- USES  foreign inspect
-- KEYS  1 the lock
-- ARGV  1 PUBLISH or SPUBLISH
--       2 free it only if this owner holds it; '' for any owner
--       3 the channel of the waiters
-- RETURN  1 freed, 0 not held (by that owner)
if redis.call('hlen', KEYS[1]) == 0 then return 0 end -- fails on a key of another type
if not lock(KEYS[1], 100) then return foreign(KEYS[1]) end
if ARGV[2] ~= '' and redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return 0 end
redis.call('del', KEYS[1])
redis.call(ARGV[1], ARGV[3], '0')
return 1
