-- Remove the entries of clients that do not listen from a queue that is full.
-- USES  queue grant listeners
-- KEYS  1 the queue: see lib/queue.lua
-- ARGV  1 a random number from 0 to 99, which says where to begin
--       2 PUBLISH or SPUBLISH
-- RETURN  how many were removed
local LOOKED = 64 -- entries that a call reads at most
local size, removed = redis.pcall('zcard', queue), 0
if fails(size) then return 0 end
local at = math.floor(math.max(size - LOOKED, 0) * ARGV[1] / 99)
for _ = 1, LOOKED do
  local member = redis.call('zrange', queue, at, at)[1]
  if not member then break end
  local client = parse(member)
  local n = client and numsub(ARGV[2], client)
  if n and n.err then break end
  if n and n[2] > 0 then
    at = at + 1
  else
    redis.call('zrem', queue, member)
    removed = removed + 1
    if #member > LONG then break end
  end
end
return removed
