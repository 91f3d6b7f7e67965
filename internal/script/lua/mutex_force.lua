-- Free a mutex whoever holds it.
-- KEYS  1 the lock
-- ARGV  1 PUBLISH or SPUBLISH
--       2 the only owner to take it from, or '' for any
--       3 the channel that waiters listen to
-- RETURN  1 freed, 0 not held (by that owner)
if redis.call('hlen', KEYS[1]) == 0 then return 0 end -- fails on a key of another type
-- A hash that is not that of a lock is somebody's data, and not deleted.
local owners, others = 0, 0
for _, field in ipairs(redis.call('hkeys', KEYS[1])) do
  if string.find(field, ':%d+$') then owners = owners + 1 elseif field ~= 'leader' then others = others + 1 end
end
if redis.call('hexists', KEYS[1], 'mode') == 0 and (owners ~= 1 or others > 0) then
  return redis.error_reply('WRONGTYPE the hash is not that of a lock')
end
if ARGV[2] ~= '' and redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return 0 end
redis.call('del', KEYS[1])
redis.call(ARGV[1], ARGV[3], '0')
return 1
