-- Return the state of a lock of any kind.
-- KEYS  1 the lock, or the number of free permits
--       and, unless they are in other slots:
--       2 the queue, 3 the counter of tokens, 4 prefix of readers' keys, 5 the leases of permits
-- ARGV  1 how many holders to list at most
--       2 the channel of the waiters for a mutex, 3 for a read/write lock, 4 for permits
-- RETURN  the kind; nothing more if it is ''
--         the last token, the value that the leader has proclaimed
--         the number of clients that wait for messages, -1 if unknown
--         the number of holders that are not listed
--         for each holder: field or id, mode, count, and its remaining ms, -1 without end
--         the queue
local most = tonumber(ARGV[1])
local function is(key, type) return key and redis.call('type', key).ok == type end
local function total(reply)
  if reply.err then return -1 end
  local n = 0
  for i = 2, #reply, 2 do n = n + reply[i] end
  return n
end

local kind, leader, more = 'mutex', '', 0
local holders, queue, channels = {}, {}, { ARGV[2] }
local function hold(owner, mode, count, left)
  if #holders >= 4 * most then
    more = more + 1
  else
    for _, v in ipairs({ owner, mode, count, left }) do holders[#holders + 1] = v end
  end
end

-- left returns the remaining ms of a reader with count holds, -2 if it is dead. If counts are large, not all holds are checked, so
-- that the script does not block the server for long. A hold that is not checked counts as alive.
local looks = 2 * most
local function left(field, count)
  local longest = -2
  for n = count, math.max(count - 99, 1), -1 do
    looks = looks - 1
    if not KEYS[4] or looks < 0 then return redis.call('pttl', KEYS[1]) end
    local ttl = redis.call('pttl', KEYS[4] .. ':' .. field .. ':rwlock_timeout:' .. n)
    if ttl == -1 then return -1 end
    longest = math.max(longest, ttl)
  end
  return longest
end

if is(KEYS[1], 'hash') then
  local mode, owners, counts, rest = lock(KEYS[1], most)
  if not mode then return { '' } end
  local ttl = redis.call('pttl', KEYS[1])
  for i, field in ipairs(owners) do
    if mode == '' then
      hold(field, 'exclusive', counts[i], ttl)
    elseif string.find(field, ':write$') then
      hold(string.sub(field, 1, -7), 'write', counts[i], ttl)
    else
      local own = left(field, counts[i])
      if own ~= -2 then hold(field, 'read', counts[i], own) end
    end
  end
  more = more + rest
  if mode ~= '' then
    kind, channels = 'rw', { ARGV[3] }
  elseif redis.call('hexists', KEYS[1], 'leader') == 1 then
    kind, leader = 'election', redis.call('hget', KEYS[1], 'leader')
  end
elseif is(KEYS[1], 'string') and is(KEYS[5], 'zset') and redis.call('strlen', KEYS[1]) <= 20 then
  if not string.find(redis.call('get', KEYS[1]), '^-?%d+$') then return { '' } end
  local now = clock()
  local all, over = redis.call('zcard', KEYS[5]), redis.call('zcount', KEYS[5], '-inf', now)
  for i = over, math.min(all, over + most) - 1 do
    local taken = redis.call('zrange', KEYS[5], i, i, 'withscores')
    if #taken[1] ~= 16 then return { '' } end
    local ends = tonumber(taken[2])
    hold(taken[1], 'permit', 1, ends < 922337203685477 and math.ceil(ends - now) or -1)
  end
  kind, channels = 'semaphore', { ARGV[4] }
  more = math.max(all - over - most, 0)
elseif redis.call('exists', KEYS[1]) == 1 then
  return { '' }
end

local token
if kind == 'mutex' or kind == 'election' then
  if is(KEYS[3], 'string') and redis.call('strlen', KEYS[3]) <= 20 then
    token = string.match(redis.call('get', KEYS[3]), '^%d+$')
    if token and kind == 'mutex' then kind = 'fenced' end
  end
  if is(KEYS[2], 'list') then
    if kind ~= 'election' then kind = 'fair' end
    local length = redis.call('llen', KEYS[2])
    for i = 0, math.min(length, most) - 1 do
      local owner = redis.call('lindex', KEYS[2], i)
      if not spend(#owner) then break end
      queue[#queue + 1] = owner
    end
    more = more + length - #queue
    for _, owner in ipairs(queue) do channels[#channels + 1] = ARGV[2] .. ':' .. owner end
  end
end
local clients = math.max(total(redis.pcall('pubsub', 'numsub', unpack(channels))), total(redis.pcall('pubsub', 'shardnumsub', unpack(channels))))
return { kind, token or '0', leader, clients, more, holders, queue }
