-- Free a mutex whoever holds it.
-- KEYS  1 the lock
-- ARGV  1 PUBLISH or SPUBLISH
--       2 the only owner to take it from, or '' for any
--       3 the channel that waiters listen to
-- RETURN  1 freed, 0 not held (by that owner)
if redis.call('hlen', KEYS[1]) == 0 then return 0 end -- fails on a key of another type
if not lock(KEYS[1], 100) then return foreign(KEYS[1]) end
if ARGV[2] ~= '' and redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return 0 end
redis.call('del', KEYS[1])
redis.call(ARGV[1], ARGV[3], '0')
return 1
