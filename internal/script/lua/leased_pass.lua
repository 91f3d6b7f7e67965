-- Release the permits of one lease and grant them to clients in the queue. Or leave the queue. Idempotent.
-- KEYS  1 the number of free permits
--       2 the leases: a sorted set of ids by their end
--       3 the channel of clients that do not queue
--       4 the queue: see lib/queue.lua
-- ARGV  1 the ids of the permits, 16 bytes each
--       2 PUBLISH or SPUBLISH
--       3 a random number from 0 to 99: see lib/queue.lua
--       4 the entry in the queue
-- RETURN  0  some were no longer held; the others were released; the entry is not in the queue any more
--         1 + the number of clients that received the message and do not queue
local MOST = 16 -- permits that a release grants to one client; a client that wants more is told to ask
local publish = ARGV[2]
local back, held = give_back(ARGV[1])
local all = held == #ARGV[1] / 16
if back == 0 then abandon(ARGV[4]) end
if back == 0 or not whole(KEYS[1]) then return all and 1 or 0 end
local free = redis.call('incrby', KEYS[1], back)

-- grant takes permits for an owner and tells its client. It returns false if the user may not publish on its channel.
local function grant(client, owner, n, ms)
  local time = redis.call('time')
  local ids = {}
  for i = 1, n do
    local hex = string.sub(redis.sha1hex(owner .. ':' .. i - 1), 1, 32)
    ids[i] = string.gsub(hex, '%x%x', function(byte) return string.char(tonumber(byte, 16)) end)
    redis.call('zadd', KEYS[2], time[1] * 1000 + math.floor(time[2] / 1000) + ms, ids[i])
  end
  redis.call('decrby', KEYS[1], n)
  local ttl = redis.call('pttl', KEYS[1])
  if ttl > 0 then redis.call('pexpire', KEYS[2], ttl) end
  if announce(publish, client, owner, string.format('%.0f', time[1] * 1000000 + time[2]), ms) then return true end
  redis.call('zrem', KEYS[2], unpack(ids))
  redis.call('incrby', KEYS[1], n)
  return false
end

-- Clients that want more permits than are free are passed over.
local lot = tonumber(ARGV[3])
local at, others, wake = 0, nil, false
for _ = 1, SKIPS do
  if free <= 0 then break end
  local count, _, member, client, owner, wanted = front(at, publish, KEYS[3])
  others = count or others
  if not member then break end
  local kind, ms = spell(wanted)
  local n = tonumber(string.match(kind, '^:permits(%d+)$') or nil) or 0
  if n == 0 then
    if fails(redis.pcall('zrem', queue, member)) then break end -- it waits for a lock with this name
  elseif n > free then
    at = at + 1
  else
    wake = n > MOST or free_for_all(others, 0, lot)
    if wake then
      told(publish, client, '')
    elseif not fails(redis.pcall('zrem', queue, member)) and grant(client, owner, n, ms) then
      free = free - n
    else
      wake = true
    end
    if wake then break end
  end
end
if free <= 0 or others == 0 and not wake then return all and 1 or 0 end
local heard = told(publish, KEYS[3], tostring(free))
return all and 1 + (others or outside(heard, publish, KEYS[3], queue)) or 0
