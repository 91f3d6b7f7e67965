-- Release a fair lock once, free it, or leave its queue. Idempotent.
-- USES  grant fair
-- KEYS  see lib/fair.lua
-- ARGV  1 owner
--       2 hold count of the owner afterwards: 0 frees it
--       3 PUBLISH or SPUBLISH
--       4 a random number, which has no meaning here
-- RETURN  0  the owner does not hold it
--         1 + the number of clients that received the message, or 1 if it is still held
local owner = ARGV[1]
local held = redis.call('hexists', KEYS[1], owner) == 1
if ARGV[2] ~= '0' then
  if not held then return 0 end
  -- A server that is out of memory refuses HSET, unless the script has written already.
  local ttl = redis.call('pttl', KEYS[1])
  if ttl > 0 then redis.call('pexpire', KEYS[1], ttl) end
  redis.call('hset', KEYS[1], owner, ARGV[2])
  return 1
end
if redis.call('zscore', KEYS[3], owner) or redis.call('zscore', KEYS[4], owner) then
  redis.call('lrem', KEYS[2], 0, owner)
  forget(owner)
  keep(false)
elseif not held then
  return 0
end
if held then redis.call('del', KEYS[1]) end
if redis.call('exists', KEYS[1]) == 1 then return 0 end
local head = first(false)

local heard = 0
if head then
  heard = call(ARGV[3], head)
  keep(false)
end
return held and 1 + heard or 0
